"""`ablate ui`: a page that shows studies while they run. It reads the store and changes nothing.

followed.py    a study as it stands: its journals are read again where their files changed
overview.py    how far every study of the store has come, from a glance at each journal
watched.py     what all clients share: pages that are read once, and positions in their changes
views/         what each page has, as data (`ablate.compare.page.parts`); none of it is HTML
figures.py     the figures of a page, from those that reports and files have
deltas.py      what of a figure is new since a position
render.py      templates -> HTML
app.py         addresses -> pages, fragments, figures, files
changes.py     what of a page is new since a position, as its script asks once a second
gate.py        who may read, and what a browser may do with a page
ports.py       ports that nothing uses
server.py      serves the page, and MLflow's own beside it
"""
