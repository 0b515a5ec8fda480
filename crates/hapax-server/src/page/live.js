// Without this script the page shows the moment it was loaded; with it, it follows.
(() => {
  const live = document.getElementById("live");
  const pulse = document.getElementById("pulse");
  if (!live || !window.EventSource) return;
  let due = null;
  const refresh = async () => {
    due = null;
    const answer = await fetch("/page/live" + location.search, { headers: { accept: "text/html" } }).catch(() => null);
    if (answer && answer.ok) live.innerHTML = await answer.text();
  };
  const soon = () => { due ??= setTimeout(refresh, 500); };
  const events = new EventSource("/v1/events");
  events.onopen = () => { pulse.classList.add("on"); soon(); };
  events.onerror = () => pulse.classList.remove("on");
  events.addEventListener("operation", soon);
  events.addEventListener("gap", soon);
})();
