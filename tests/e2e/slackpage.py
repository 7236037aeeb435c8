"""Let local-slack's page show what Slack shows and it does not: uploaded pictures, instants, code blocks, what an input begins with."""

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
    const block = '<pre style="margin:4px 0;padding:8px;border:1px solid #ddd;border-radius:4px;background:#f8f8f8;font-size:12px">$1</pre>';
    const shown = span.innerHTML.replace(/```(?:<br>)?([^]*?)(?:<br>)?```/g, block);
    if (shown !== span.innerHTML) span.innerHTML = shown;
  }
  await Promise.all(loaded);
}"""
"""Run with a channel's id, before a picture is taken."""

BEGINS_WITH = r"""
const beginsWith = view => Object.fromEntries((view?.blocks ?? []).filter(one => one.type === "input").map(one => {
  const {type, action_id, initial_value, initial_option, initial_options} = one.element;
  if (initial_value !== undefined) return [one.block_id, {[action_id]: {type, value: initial_value}}];
  if (initial_option !== undefined) return [one.block_id, {[action_id]: {type, selected_option: initial_option}}];
  if (initial_options !== undefined) return [one.block_id, {[action_id]: {type, selected_options: initial_options}}];
  return [one.block_id, {}];
}));
const reads = [
  ["get:(R,L)=>{var P;return(P=g[R])==null?void 0:P[L]}", "get:(R,L)=>g[R]?.[L]??beginsWith(m)[R]?.[L]"],
  [",[g]);return m?", ",[g,m]);return m?"],
  ["onClick:()=>f6(a,g)", "onClick:()=>f6(a,{...beginsWith(m),...g})"],
];
const asSlackBegins = page => {
  const shown = reads.reduce((text, [read, instead]) => {
    if (text.split(read).length !== 2) throw Error(`another version of the page, which does not read ${read}`);
    return text.replace(read, () => instead);
  }, page);
  return shown.replace("<head>", () => `<head><script>window.beginsWith = ${beginsWith}</script>`);
};
"""
"""Defines a function of the page's text: its windows begin with their initial values and send them untouched, as Slack's do.

`reads` is where the page of the pinned version reads what was filled in: to draw an input, and to send them all.
"""
