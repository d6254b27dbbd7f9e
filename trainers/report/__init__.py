"""The report: tables and figures, made from the records."""
