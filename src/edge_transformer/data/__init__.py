"""Readers, writers and generators of data: one file a format."""
