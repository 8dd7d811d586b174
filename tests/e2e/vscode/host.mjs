// A page such as VS Code shows the outputs of a notebook in: VS Code's own renderer, from npm, over a real kernel.
// The extension's part, between the renderer and the kernel, is played here.
import { KernelManager, ServerConnection, SessionManager } from "@jupyterlab/services";
import { activate } from "./ipywidgets.js";

const WIDGET = "application/vnd.jupyter.widget-view+json";
const COLOURS = {
  light: { "editor-background": "#ffffff", "editor-foreground": "#3b3b3b" },
  dark: { "editor-background": "#1f1f1f", "editor-foreground": "#cccccc" },
};

window.setTheme = (theme) => {
  const { body, documentElement: html } = document;
  body.className = body.dataset.vscodeThemeKind = `vscode-${theme}`;
  for (const [name, value] of Object.entries({
    ...COLOURS[theme],
    "font-family": "system-ui, sans-serif",
    "font-weight": "normal",
    "font-size": "13px",
  }))
    html.style.setProperty(`--vscode-${name}`, value);
  html.style.background = COLOURS[theme]["editor-background"]; // of the window behind the page
};
window.setTheme("light");

activate();
window.vscIPyWidgets8.load();

const serverSettings = ServerConnection.makeSettings({
  baseUrl: new URL("/", location.href).href,
  wsUrl: new URL("/", location.href).href.replace("http", "ws"),
  token: new URL(location.href).searchParams.get("token"),
  appendToken: true,
});
const kernelManager = new KernelManager({ serverSettings });
const sessions = new SessionManager({ kernelManager, serverSettings });
const { kernel } = await sessions.startNew({
  path: "vscode.ipynb",
  name: "vscode.ipynb",
  type: "notebook",
  kernel: { name: "python3" },
});
const manager = new window.vscIPyWidgets.WidgetManager(
  kernel,
  document.body,
  {
    widgetsRegisteredInRequireJs: new Set(),
    loadWidgetScript: async (name) => window.requirejs.config({ paths: { [name]: name } }),
    successHandler() {},
    errorHandler: (...fault) => console.error("A widget was not loaded", ...fault),
  },
  () => {},
);

/** Shows a widget as the renderer's own page does. */
async function show(output, { model_id }) {
  const background = document.createElement("div");
  background.className = "cell-output-ipywidget-background";
  const inner = document.createElement("div");
  inner.className = "cell-output";
  background.append(inner);
  output.append(background);
  const model = await manager.get_model(model_id);
  const view = await manager.create_view(model, { el: background });
  await manager.display_view({}, view, { node: background });
}

/** Runs a cell; one that ran before loses its output first. Tells the error, if there is one. */
window.run = async (cell, code) => {
  document.getElementById(cell)?.remove();
  const output = document.createElement("div");
  output.id = cell;
  output.className = "output";
  const inner = document.createElement("div");
  output.append(inner);
  document.body.append(output);
  const shown = [];
  const future = kernel.requestExecute({ code, store_history: true }, true, { cellId: cell });
  future.onIOPub = ({ content }) => {
    if (content.data?.[WIDGET]) shown.push(show(inner, content.data[WIDGET]));
  };
  const { content } = await future.done;
  await Promise.all(shown);
  return content.status === "error" ? content.traceback.join("\n") : null;
};
window.isReady = true;
