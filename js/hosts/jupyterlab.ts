import type { Host } from "./host";

/** JupyterLab, Notebook 7, and hosts that use their packages. */
export const jupyterlab = {
  marks: [
    {
      on: "body",
      attribute: "data-jp-theme-light",
      theme: (value) => (value === "false" ? "dark" : "light"),
    },
  ],
  // Otherwise it takes keys as commands, some of which delete cells.
  keepKeys: { "data-lm-suppress-shortcuts": "true" },
  kernel: {
    gone: ".jupyter-widgets-disconnected",
    event: "comm_live_update",
    isLive: (view) => (view as View | undefined)?.model?.comm_live,
  },
  callbacks: (done) => ({
    iopub: { status: (message: StatusMessage) => isIdle(message) && done() },
  }),
} satisfies Host;

/** The view, which anywidget passes as `this`. Its mark does not change, because anywidget removes its listeners. */
interface View {
  model?: { comm_live?: boolean };
}

/** A message about the kernel's state. */
interface StatusMessage {
  content?: { execution_state?: string };
}

function isIdle({ content }: StatusMessage): boolean {
  return content?.execution_state === "idle";
}
