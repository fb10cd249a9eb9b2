"""What may be around rows: gzip, zstd, Parquet; told by `sniff`, each opened by a module of its own."""
