"""The endpoint picker: the gateway's choice for an Envoy, which asks for it over ext_proc."""
