"""SavedModels that TF-Serving serves."""

from tf_wcd.export.saved_model import export_machines
from tf_wcd.export.table import SIGNATURES, signature_table

__all__ = ["SIGNATURES", "export_machines", "signature_table"]
