"""What is measured on a GPU, whenever there is one."""
