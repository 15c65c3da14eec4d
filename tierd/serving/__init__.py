"""Answers requests to tierd: the API, the metrics, and the server that both use."""
