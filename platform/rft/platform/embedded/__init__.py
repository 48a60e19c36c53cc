"""Postgres, broker, API and worker as children of one supervisor: `rft up`."""
