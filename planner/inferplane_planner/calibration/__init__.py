"""An engine's timing profile out of times that were measured from outside."""
