"""Small kernels to try the lab on, as case files: kernel, `make_inputs`, `golden`."""
