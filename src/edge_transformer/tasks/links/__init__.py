"""Missing links of whole knowledge graphs."""
