"""The image that the end-to-end tests run: the project's own Dockerfile, built on this machine without a registry.

| module | what it is |
|---|---|
| `sources` | what an image depends on, as a digest |
| `builder` | Docker's daemon in an enclosure of its own, with layers kept in the user's cache |
| `base` | the base image, from the distribution's packages |
| `built` | from a checkout to an archive that a node takes |
"""
