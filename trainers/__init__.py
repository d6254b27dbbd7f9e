"""Programs that train models and reproduce results."""
