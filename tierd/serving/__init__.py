"""Who asks tierd, and how they are answered: the API, the metrics, their server."""
