// What scrolls sideways can be scrolled by keyboard too.
for (const region of document.querySelectorAll("pre, .table-wrapper")) {
  if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
}
