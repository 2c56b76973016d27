"""The router's decisions without any I/O: block index, load, cost, choice, queue, records.

`router.RouterCore` is the facade (its contract is in `facade`), `values` what goes in and comes out, `testing` the
builders for tests, `warming.warm` compiles the kernels at a process's start.
"""
