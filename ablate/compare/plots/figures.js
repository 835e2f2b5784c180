// Draws every element <div data-figure="NAME"> from the JSON in the script element "figure-NAME".
"use strict";
function drawFigure(box) {
  const figure = JSON.parse(document.getElementById(`figure-${box.dataset.figure}`).textContent);
  // A finger that moves over a picture scrolls the page; a mouse zooms.
  figure.layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  figure.config.toImageButtonOptions.filename = box.dataset.figure;
  return Plotly.newPlot(box, figure.data, figure.layout, figure.config);
}
for (const box of document.querySelectorAll("[data-figure]")) drawFigure(box);
