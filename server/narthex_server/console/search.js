// The key / goes to the field of the search, as in most tools of its kind.
(() => {
  "use strict";
  const field = document.getElementById("q");
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
