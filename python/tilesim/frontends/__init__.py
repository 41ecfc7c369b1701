"""Front ends: models of other frameworks as graphs. Each is imported when it is used."""
