"""A page for the person on call: what runs, whether the objective holds, and why a request went where it went.

It needs neither Grafana nor the internet.  `history` keeps the last hour, `picture` makes one document of everything,
`pages` answers requests, `page/` holds what a browser gets.
"""
