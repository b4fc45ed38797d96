// What makes search quicker than links and forms alone; without it everything works too.
"use strict";
(() => {
  const box = document.getElementById("q");
  const page = document.getElementById("page");
  const keys = document.getElementById("keys");
  let selected = -1;
  let pending = null;
  let timer = 0;

  const results = () => [...document.querySelectorAll(".result")];

  function select(next) {
    const all = results();
    if (!all.length) return;
    selected = Math.max(0, Math.min(all.length - 1, next));
    all.forEach((result, at) => result.classList.toggle("selected", at === selected));
    const link = all[selected].querySelector("a.open");
    link.focus({ preventScroll: true });
    all[selected].scrollIntoView({ block: "nearest" });
  }

  function addressOf(form) {
    const params = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) params.append(name, value);
    const query = params.toString();
    return query ? "/?" + query : "/";
  }

  // Replaces what changes; the address then is that of the new results.
  async function show(address, push) {
    pending?.abort();
    const mine = (pending = new AbortController());
    const url = new URL(address, location.href);
    url.searchParams.set("fragment", "1");
    page.setAttribute("aria-busy", "true");
    let response, text;
    try {
      response = await fetch(url, { headers: { accept: "text/html" }, credentials: "same-origin", signal: mine.signal });
      text = await response.text();
    } catch {
      // Newer words are being searched for, or the server cannot be reached.
      if (pending === mine) page.removeAttribute("aria-busy");
      return;
    }
    if (pending !== mine) return;
    page.removeAttribute("aria-busy");
    // The server escapes everything, and the content policy lets no other script run.
    if (response.ok) page.innerHTML = text;
    else page.replaceChildren(new DOMParser().parseFromString(text, "text/html").querySelector("main") || "");
    selected = -1;
    const words = box.value.trim();
    document.title = (words || "Search") + " – Quarry";
    if (push) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  if (box) {
    const form = box.form;
    let typed = false;
    box.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        // A single letter finds nothing that more letters would not.
        if (box.value.trim().length === 1) return;
        show(addressOf(form), !typed);
        typed = true;
      }, 150);
    });
    window.addEventListener("popstate", () => location.reload());
  }

  // What changes by itself. Browsers ask again by themselves if the stream ends.
  const live = document.querySelector("[data-live]");
  if (live) {
    const stream = new EventSource(live.dataset.live);
    stream.addEventListener("content", (event) => {
      // The server escapes everything, as in the page itself.
      live.innerHTML = JSON.parse(event.data).html;
    });
    // A stream that is left open would keep the page from being shown again at once.
    window.addEventListener("pagehide", () => stream.close());
  }

  if (document.querySelector("[data-building]")) setTimeout(() => location.reload(), 1500);

  function copy(text) {
    if (navigator.clipboard) navigator.clipboard.writeText(text).catch(() => {});
  }

  if (keys) for (const button of document.querySelectorAll("[data-keys]")) button.addEventListener("click", () => keys.showModal());

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey && event.target instanceof HTMLTextAreaElement) {
      const run = event.target.form.querySelector("[data-run]");
      if (run) run.click();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    const writes = target instanceof HTMLElement && target.matches("input, textarea, select");
    if (event.key === "Escape" && writes) return target.blur();
    if (event.key === "ArrowDown" && target === box) {
      event.preventDefault();
      return select(0);
    }
    if (writes || (keys && keys.open)) return;
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (button) {
      event.preventDefault();
      return button.click();
    }
    switch (event.key) {
      case "/":
        if (!box) return;
        event.preventDefault();
        box.focus();
        box.select();
        break;
      case "j": select(selected + 1); break;
      case "k": select(selected - 1); break;
      case "Enter": {
        const all = results();
        if (target === document.body && all[selected]) all[selected].querySelector("a.open").click();
        break;
      }
      case "y": {
        const all = results();
        copy(all[selected] ? all[selected].querySelector("a.open").href : location.href);
        break;
      }
      case "?": if (keys) keys.showModal(); break;
    }
  });
})();
