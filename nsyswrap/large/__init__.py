"""Large captures: reads a part in detail that fits into memory, and the ledger of all."""
