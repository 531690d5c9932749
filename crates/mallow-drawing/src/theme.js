// The theme: that of the system, until somebody chooses.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const switchButton = document.getElementById("theme");
let chosen = null;
try { chosen = localStorage.getItem("mallow-theme"); } catch { /* files may have no storage */ }
function applyTheme() {
  const theme = chosen ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  switchButton.textContent = theme === "dark" ? "Light" : "Dark";
  switchButton.setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
}
switchButton.addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("mallow-theme", chosen); } catch { /* it lasts as long as the page */ }
  applyTheme();
});
dark.addEventListener("change", applyTheme);
applyTheme();

