"""What is kept on the disk, and how processes share it: records, and claims on pieces of work."""
