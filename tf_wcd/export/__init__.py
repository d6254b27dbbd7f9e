"""SavedModels that TF-Serving serves."""

from tf_wcd.export.saved_model import export_machines

__all__ = ["export_machines"]
