"""What the end-to-end tests are written with: waiting, asking, conversations checked token by token, evidence."""
