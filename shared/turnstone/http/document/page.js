"use strict";
// Sends requests of the page's reader to this server only. The key is in its field and nowhere else: it is neither
// stored nor put into an address, and the field is emptied when the page is left.
(() => {
  const MOST_SHOWN = 200000;
  const base = document.body.dataset.base;
  const key = document.getElementById("key");

  const made = (tag, text = "", properties = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    return Object.assign(element, properties);
  };

  const field = (form, place, name, value = "") => {
    const label = made("label", `${name} `);
    const input = made("input", "", { value, autocomplete: "off", spellcheck: false });
    input.dataset.place = place;
    input.dataset.name = name;
    label.append(input);
    form.append(label);
  };

  const headers = (form) => {
    const sent = new Headers();
    const text = key ? key.value.trim() : "";
    if (text && !/^[\x21-\x7e]+$/.test(text)) {
      throw new Error("a key has visible ASCII characters only");
    }
    if (text) {
      sent.set("Authorization", `Bearer ${text}`);
    }
    if (form.querySelector("textarea")) {
      sent.set("Content-Type", "application/json");
    }
    return sent;
  };

  const address = (form) => {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    for (const input of form.querySelectorAll("input")) {
      if (input.dataset.place === "path") {
        if (!input.value) {
          throw new Error(`${input.dataset.name} is missing`);
        }
        path = path.replace(`{${input.dataset.name}}`, () => encodeURIComponent(input.value));
      } else if (input.value) {
        query.append(input.dataset.name, input.value);
      }
    }
    const url = new URL(location.origin + base + path);
    url.search = query.toString();
    if (url.origin !== location.origin) {
      throw new Error("this address is not of this server");
    }
    return url;
  };

  const shown = (text) => {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    }
  };

  const read = async (response, output) => {
    const head = `${response.status} ${response.headers.get("x-request-id") || ""}\n\n`;
    const reader = response.body ? response.body.getReader() : null;
    const decoder = new TextDecoder();
    let text = "";
    while (reader && text.length < MOST_SHOWN) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      text += decoder.decode(value, { stream: true });
      output.textContent = head + text;
    }
    if (reader && text.length >= MOST_SHOWN) {
      await reader.cancel();
    }
    output.textContent = head + shown(text).slice(0, MOST_SHOWN);
  };

  const send = async (form, button, output) => {
    button.disabled = true;
    output.textContent = "…";
    try {
      const body = form.querySelector("textarea");
      const response = await fetch(address(form), {
        method: form.dataset.method,
        headers: headers(form),
        body: body ? body.value : undefined,
        mode: "same-origin",
        credentials: "omit",
        cache: "no-store",
        redirect: "error",
        referrerPolicy: "no-referrer",
      });
      await read(response, output);
    } catch (error) {
      output.textContent = `not sent, or not answered: ${error.message}`;
    } finally {
      button.disabled = false;
    }
  };

  const open = (form) => {
    for (const name of form.dataset.path.matchAll(/{(\w+)}/g)) {
      field(form, "path", name[1]);
    }
    for (const name of JSON.parse(form.dataset.query)) {
      field(form, "query", name);
    }
    if (form.dataset.body) {
      form.append(made("textarea", "", { value: shown(form.dataset.body), rows: 8, spellcheck: false }));
    }
    const button = made("button", "Send", { type: "button" });
    const output = made("pre");
    output.setAttribute("aria-live", "polite");
    button.addEventListener("click", () => send(form, button, output));
    form.append(button, output);
  };

  for (const form of document.querySelectorAll(".try")) {
    const button = made("button", "Try it", { type: "button" });
    button.addEventListener("click", () => {
      button.remove();
      open(form);
    });
    form.append(button);
  }
  if (key) {
    key.value = "";
    window.addEventListener("pagehide", () => {
      key.value = "";
    });
    document.getElementById("forget").addEventListener("click", () => {
      key.value = "";
    });
  }
})();
