// What makes search quicker than links and forms alone; without it everything works too.
"use strict";
(() => {
  const box = document.getElementById("q");
  const page = document.getElementById("page");
  const keys = document.getElementById("keys");
  let selected = -1;
  let pending = null;
  let timer = 0;

  // Queries that this browser keeps; a browser that keeps nothing has none.
  const kept = {
    read(name) {
      try {
        const all = JSON.parse(localStorage.getItem("quarry." + name));
        return Array.isArray(all) ? all.filter((query) => typeof query === "string") : [];
      } catch {
        return [];
      }
    },
    write(name, all) {
      try {
        localStorage.setItem("quarry." + name, JSON.stringify(all.slice(0, 30)));
      } catch {}
    },
    add(name, query) {
      if (query) this.write(name, [query, ...this.read(name).filter((other) => other !== query)]);
    },
    toggle(name, query) {
      const all = this.read(name);
      if (all.includes(query)) this.write(name, all.filter((other) => other !== query));
      else this.add(name, query);
    },
  };

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // What is on the page is made anew with each result.
  function dress() {
    for (const details of document.querySelectorAll("details[data-remember]")) {
      const name = "quarry.open." + details.dataset.remember;
      try {
        const open = localStorage.getItem(name);
        if (open !== null) details.open = open === "1";
        details.addEventListener("toggle", () => localStorage.setItem(name, details.open ? "1" : "0"));
      } catch {}
    }
    for (const button of document.querySelectorAll("[data-save]")) {
      const query = box.value.trim();
      const name = () => (kept.read("saved").includes(query) ? "Forget query" : "Save query");
      button.textContent = name();
      button.addEventListener("click", () => {
        kept.toggle("saved", query);
        button.textContent = name();
      });
    }
    const place = document.getElementById("kept");
    if (place) {
      const list = (title, name) => {
        const queries = kept.read(name).slice(0, 8);
        if (!queries.length) return [];
        const links = queries.map((query) => element("li", {}, element("a", { href: "/?q=" + encodeURIComponent(query) }, query)));
        const forget = element("button", { type: "button" }, "Clear");
        forget.addEventListener("click", () => {
          kept.write(name, []);
          dress();
        });
        return [element("h2", {}, title, " ", forget), element("ul", { class: "examples" }, ...links)];
      };
      place.replaceChildren(...list("Saved queries", "saved"), ...list("Recent queries", "recent"));
      place.hidden = !place.childElementCount;
    }
    const current = document.querySelector(".files [aria-current]");
    if (current) current.scrollIntoView({ block: "nearest" });
  }

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
    dress();
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

  // Keys and values of the query syntax, at the end of what is typed.
  function complete(box) {
    const list = element("ul", { id: "completions", role: "listbox", "aria-label": "Query syntax", hidden: "" });
    box.form.append(list);
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-autocomplete": "list", "aria-controls": "completions", "aria-expanded": "false",
    })) box.setAttribute(name, value);
    let known = null;
    let chosen = -1;
    const token = () => box.value.slice(0, box.selectionStart).match(/\S*$/)[0];

    function close() {
      list.hidden = true;
      chosen = -1;
      box.setAttribute("aria-expanded", "false");
      box.removeAttribute("aria-activedescendant");
    }
    function accept(text) {
      const at = box.selectionStart;
      const start = at - token().length;
      box.value = box.value.slice(0, start) + text + box.value.slice(at);
      box.setSelectionRange(start + text.length, start + text.length);
      close();
      box.dispatchEvent(new Event("input"));
    }
    async function open() {
      const typed = token();
      if (typed.length < 2) return close();
      if (!known) {
        known = [];
        try {
          known = await (await fetch("/complete", { credentials: "same-origin" })).json();
        } catch {}
      }
      const sign = /^[-!]/.test(typed) ? typed[0] : "";
      const word = typed.slice(sign.length);
      const [key, value] = word.split(/:(.*)/s);
      const of = known.find((one) => one.key === key);
      const found = value === undefined
        ? known.filter((one) => one.key.startsWith(word) && (!sign || one.key === "path")).map((one) => [sign + one.key + ":", one.about])
        : (of ? of.values : []).filter((one) => one.toLowerCase().startsWith(value.toLowerCase()) && one !== value).slice(0, 10)
            .map((one) => [sign + key + ":" + (/\s/.test(one) ? JSON.stringify(one) : one), ""]);
      if (!found.length || token() !== typed) return close();
      chosen = -1;
      list.replaceChildren(...found.map(([text, about], at) => {
        const item = element("li", { id: "completion-" + at, role: "option", "aria-selected": "false" }, element("b", {}, text), " ", about);
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          accept(text);
        });
        item.dataset.text = text;
        return item;
      }));
      list.hidden = false;
      box.setAttribute("aria-expanded", "true");
    }
    box.addEventListener("input", open);
    box.addEventListener("blur", close);
    box.addEventListener("keydown", (event) => {
      if (list.hidden) return;
      const items = [...list.children];
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + items.length + (chosen < 0 && event.key === "ArrowUp" ? 1 : 0)) % items.length;
        items.forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
        box.setAttribute("aria-activedescendant", items[chosen].id);
      } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
        accept(items[chosen].dataset.text);
      } else if (event.key === "Escape") {
        close();
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
  }

  // A card about what a link leads to, while it is pointed at or has the focus.
  function cards() {
    const card = element("div", { id: "card", role: "tooltip", hidden: "" });
    document.body.append(card);
    const texts = new Map();
    let wanted = null;
    let wait = 0;
    async function show(link) {
      const url = new URL(link.href);
      const address = url.pathname.replace(/^\/file\//, "/card/") + "?line=" + (url.searchParams.get("line") || 1);
      if (!texts.has(address)) {
        try {
          const response = await fetch(address, { credentials: "same-origin" });
          if (!response.ok) return;
          texts.set(address, await response.text());
        } catch {
          return;
        }
      }
      if (wanted !== link) return;
      // The server escapes everything.
      card.innerHTML = texts.get(address);
      card.hidden = false;
      const at = link.getBoundingClientRect();
      const left = Math.max(8, Math.min(at.left, innerWidth - card.offsetWidth - 8));
      const below = at.bottom + card.offsetHeight + 8 < innerHeight;
      card.style.left = left + scrollX + "px";
      card.style.top = (below ? at.bottom + 4 : at.top - card.offsetHeight - 4) + scrollY + "px";
      link.setAttribute("aria-describedby", "card");
    }
    const hide = () => {
      clearTimeout(wait);
      if (wanted) wanted.removeAttribute("aria-describedby");
      wanted = null;
      card.hidden = true;
    };
    const begin = (event) => {
      const link = event.target.closest && event.target.closest("a.def");
      if (!link || link === wanted) return;
      hide();
      wanted = link;
      wait = setTimeout(() => show(link), 250);
    };
    document.addEventListener("mouseover", (event) => (event.target.closest("a.def") ? begin(event) : hide()));
    document.addEventListener("focusin", begin);
    document.addEventListener("focusout", hide);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  }

  // The calls of a definition, below its line.
  async function references(link) {
    const line = link.closest(".line");
    const shown = line.nextElementSibling;
    if (shown && shown.matches(".inline")) return shown.remove();
    const url = new URL(link.href);
    url.searchParams.set("fragment", "1");
    try {
      const response = await fetch(url, { credentials: "same-origin" });
      if (!response.ok) throw response.status;
      const inline = element("div", { class: "inline", tabindex: "-1", role: "region", "aria-label": "Calls of " + link.textContent });
      // The server escapes everything.
      inline.innerHTML = await response.text();
      const close = element("button", { type: "button", class: "close" }, "Close");
      close.addEventListener("click", () => {
        inline.remove();
        link.focus();
      });
      inline.prepend(close);
      line.after(inline);
      inline.focus({ preventScroll: true });
    } catch {
      location.href = link.href;
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.refs");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      return references(link);
    }
    const button = event.target.closest("[data-copy], [data-copy-link]");
    if (button) {
      copy(button.dataset.copy ?? location.origin + button.dataset.copyLink);
      const text = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = text), 1500);
    }
    // A query that was of use is kept.
    if (box && event.target.closest(".result a")) kept.add("recent", box.value.trim());
  });

  if (box) {
    box.form.addEventListener("submit", () => kept.add("recent", box.value.trim()));
    complete(box);
  }
  dress();
  if (document.querySelector("a.def")) cards();

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
    if (event.key === "Escape") {
      const inline = target.closest && target.closest(".inline");
      if (inline) return inline.querySelector("button.close").click();
    }
    if (event.key === "Escape" && writes) return target.blur();
    if (event.key === "?" && target === box && !box.value && keys) {
      event.preventDefault();
      return keys.showModal();
    }
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
      case "s": {
        const save = document.querySelector("[data-save]");
        if (save) save.click();
        break;
      }
      case "?": if (keys) keys.showModal(); break;
    }
  });
})();
