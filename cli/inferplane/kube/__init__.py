"""What commands do in a cluster: gather objects through the seam of `inferplane.cluster`, judge them, show them."""
