"""Backward as it ran: watched, kept, recorded, travelled through."""
