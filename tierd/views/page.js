"use strict";
// Fetches the page again and replaces the parts that have changed, while somebody looks at it.
{
  const EVERY_MS = 2000;
  const PATIENCE_MS = 10000;
  const PARTS = "header, main > section, main .columns section, footer";
  const notice = () => document.getElementById("notice");
  let timer;

  const show = (next) => {
    const script = (page) => page.querySelector("script").textContent;
    if (script(next) !== script(document)) return location.reload(); // another version of tierd
    document.title = next.title;
    const [olds, news] = [document, next].map((page) => [...page.querySelectorAll(PARTS)]);
    const same = olds.length === news.length && olds.every((old, i) => old.id === news[i].id);
    if (!same) return document.querySelector("main").replaceWith(next.querySelector("main"));
    olds.forEach((old, i) => {
      if (old.outerHTML !== news[i].outerHTML) old.replaceWith(news[i]);
    });
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok) throw new Error(answer.statusText);
      const text = await answer.text();
      // A text that is being selected stays as it is.
      if (getSelection().isCollapsed) show(new DOMParser().parseFromString(text, "text/html"));
      notice().hidden = true;
    } catch {
      notice().hidden = false;
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, EVERY_MS);
  };

  document.addEventListener("visibilitychange", refresh);
  timer = setTimeout(refresh, EVERY_MS);
}
