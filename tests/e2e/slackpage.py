"""Let local-slack's page show what Slack shows and it does not: tables, charts, pictures, instants, code, what an input begins with."""

AS_SLACK_SHOWS = """async channel => {
  const said = (await (await fetch(`/_control/messages/${channel}`)).json()).messages;
  const images = said.flatMap(one => one.blocks ?? []).filter(block => block.type === "image" && block.slack_file);
  const files = new Map(images.map(block => [block.alt_text, block.slack_file.id]));
  const loaded = [];
  for (const img of document.querySelectorAll(".bk-image img:not([src])")) {
    loaded.push(new Promise(done => { img.onload = img.onerror = done; }));
    img.src = `/files/U0BOT/${files.get(img.alt)}/chart.png`;
    img.style.width = "480px";
    img.parentElement.style.margin = "6px 0";
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const shown = node.data.replace(/<!date\\^\\d+\\^[^|]*\\|([^>]*)>/g, "$1");
    if (shown !== node.data) node.data = shown;
  }
  for (const span of document.querySelectorAll(".bk-text .mrkdwn")) {
    const block = '<pre style="margin:4px 0;padding:8px;border:1px solid light-dark(#ddd,#35373b);border-radius:4px;background:light-dark(#f8f8f8,#222529);font-size:12px">$1</pre>';
    const shown = span.innerHTML.replace(/```(?:<br>)?([^]*?)(?:<br>)?```/g, block);
    if (shown !== span.innerHTML) span.innerHTML = shown;
  }
  const cell = (one, head) => `<t${head ? "h" : "d"} style="padding:5px 12px;border-bottom:1px solid light-dark(#ddd,#35373b);text-align:` +
    `${one.type === "raw_number" ? "right" : "left"};font-weight:${head ? 700 : 400}">${one.text}${head ? " ↕" : ""}</t${head ? "h" : "d"}>`;
  const row = (cells, head) => `<tr>${cells.map(one => cell(one, head)).join("")}</tr>`;
  const bars = ({series, axis_config}) => {
    const points = series[0].data, most = Math.max(...points.map(one => one.value), 0) || 1, wide = 440 / points.length;
    return points.map((one, n) => `<rect x="${20 + n * wide}" y="${150 - 120 * one.value / most}" width="${wide * 0.7}" ` +
      `height="${120 * one.value / most}" fill="#1264a3"/><text x="${20 + n * wide}" y="166" font-size="10" fill="currentColor">${one.label}</text>`).join("");
  };
  const own = {
    data_table: block => `<table style="border-collapse:collapse;border:1px solid light-dark(#ddd,#35373b);border-radius:8px;margin:6px 0;font-size:13px">` +
      `${row(block.rows[0], true)}${block.rows.slice(1, 1 + block.page_size).map(one => row(one)).join("")}</table>`,
    data_visualization: block => `<div style="font-weight:700">${block.title}</div><svg width="480" height="175">${bars(block.chart)}</svg>`,
  };
  for (const message of document.querySelectorAll(".msg[data-ts]")) {
    const blocks = (said.find(one => one.ts === message.dataset.ts)?.blocks ?? []).filter(block => own[block.type]);
    message.querySelectorAll(".bk-unknown").forEach((place, n) => {
      if (blocks[n]) place.outerHTML = `<div>${own[blocks[n].type](blocks[n])}</div>`;
    });
  }
  const box = words => `<span style="display:inline-block;border:1px solid light-dark(#999,#565856);border-radius:4px;padding:7px 12px;margin-right:8px;` +
    `font-size:14px;color:light-dark(#616061,#ababad)">${words}</span>`;
  for (const place of document.querySelectorAll(".bk-unknown, .modal *, [role=dialog] *")) {
    if (!place.children.length && place.textContent === "[datetimepicker]") place.outerHTML = box("📅 Select date") + box("🕘 Select time");
  }
  await Promise.all(loaded);
}"""
"""Run with a channel's id, before a picture is taken."""

DARK = """
:root{color-scheme:dark;--border:#35373b;--text:#d1d2d3;--muted:#ababad}
body,.main,.home,.modal,.thread-pane,.composer,.thread-summary.unread{background:#1a1d21;color:var(--text)}
.msg:hover{background:#222529}
.msg-text a,.thread-summary-count,.mention{color:#1d9bd1}
.mention{background:#1d9bd126}
.badge-app{background:#35373b;color:#ababad}
.bk-button:not(.bk-primary):not(.bk-danger),.modal-btn:not(.primary){background:#1a1d21;color:#d1d2d3;border-color:#565856}
.bk-select,.bk-plain-input,.modal-x{background:#222529;color:#d1d2d3;border-color:#565856}
code{background:#232529;border-color:#35373b;color:#e8912d}
"""
"""Slack's dark colours for a page that has none; an uploaded picture stays as it is, in Slack as well."""

BEGINS_WITH = r"""
const beginsWith = view => Object.fromEntries((view?.blocks ?? []).filter(one => one.type === "input").map(one => {
  const {type, action_id, initial_value, initial_option, initial_options} = one.element;
  if (initial_value !== undefined) return [one.block_id, {[action_id]: {type, value: initial_value}}];
  if (initial_option !== undefined) return [one.block_id, {[action_id]: {type, selected_option: initial_option}}];
  if (initial_options !== undefined) return [one.block_id, {[action_id]: {type, selected_options: initial_options}}];
  return [one.block_id, {}];
}));
const people = ["U01ALICE alice", "U02BOB bob"].map(one => one.split(" ")).map(([value, text]) => ({value, text: {text}}));
const reads = [
  ["get:(R,L)=>{var P;return(P=g[R])==null?void 0:P[L]}", "get:(R,L)=>g[R]?.[L]??beginsWith(m)[R]?.[L]"],
  [",[g]);return m?", ",[g,m]);return m?"],
  ['??"Select"}),(se=l.options)==null', '??"Select"}),(se=l.options??window.people)==null'],
  ["k({type:l.type,selected_option:V})", "(a.input?a.input.set(c,g,{type:l.type,selected_user:V.value}):k({type:l.type,selected_option:V}))"],
  ["onClick:()=>f6(a,g)", "onClick:()=>f6(a,{...beginsWith(m),...g})"],
];
const asSlackBegins = page => {
  const shown = reads.reduce((text, [read, instead]) => {
    if (text.split(read).length !== 2) throw Error(`another version of the page, which does not read ${read}`);
    return text.replace(read, () => instead);
  }, page);
  return shown.replace("<head>", () => `<head><script>window.beginsWith = ${beginsWith}; window.people = ${JSON.stringify(people)}</script>`);
};
"""
"""Defines a function of the page's text: its windows begin with initial values, sent untouched, and people are picked in them, as in Slack.

`reads` is where the page of the pinned version reads what was filled in: to draw an input, and to send them all.
"""
