"""Let local-slack's page show what Slack shows and it does not: uploaded pictures, instants, and code blocks."""

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
