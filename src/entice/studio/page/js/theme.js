// Light or dark, before the first paint: what was chosen here last, else what the system wishes.
// A classic script, since modules wait for the page.
(() => {
  const root = document.documentElement;
  const wish = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    root.dataset.theme = localStorage.getItem("entice-theme") ?? (wish.matches ? "dark" : "light");
    dispatchEvent(new Event("theme"));
  };
  wish.addEventListener("change", apply);
  addEventListener("choose-theme", (event) => {
    localStorage.setItem("entice-theme", event.detail);
    apply();
  });
  apply();
})();
