"""Figures and widgets: one tree of parts to HTML, SVG and text."""
