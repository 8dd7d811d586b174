"""Backward as it ran: observed, kept, recorded, travelled through."""
