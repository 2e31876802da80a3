"""The operator records, a module per family; see :mod:`raynd.ops.registry` for what a record is."""
