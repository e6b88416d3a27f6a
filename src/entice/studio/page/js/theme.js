// The theme: the saved one, else the system's. A classic script, so that it runs before the first
// paint; modules run later.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    root.dataset.theme =
      localStorage.getItem("entice-theme") ?? (system.matches ? "dark" : "light");
    dispatchEvent(new Event("theme"));
  };
  system.addEventListener("change", apply);
  addEventListener("choose-theme", (event) => {
    localStorage.setItem("entice-theme", event.detail);
    apply();
  });
  apply();
})();
