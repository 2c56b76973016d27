"""A cluster's API server, as far as more than one component asks it: watches that go on, and who leads."""
