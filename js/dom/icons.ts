/** Paths of 16 by 16 px line icons. */
export const ICONS = {
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  fit: "M4.5 5.5h7v5h-7ZM8 1v3M8 12v3M.5 8h3M12.5 8h3",
  full: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  view: "M2.5 4.5h11M2.5 11.5h11M6 3v3M10.5 10v3",
  done: "M4 8.5l2.5 2.5L12 5.5",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.5 10.5l3 3",
  close: "M4 4l8 8M12 4l-8 8",
  panel: "M2.5 3h11v10h-11ZM9.5 3v10",
  dashed:
    "M2.5 6V3.5H5M7 3.5h2M11 3.5h2.5V6M13.5 7.2v1.6M13.5 10v2.5H11M9 12.5H7M5 12.5H2.5V10M2.5 8.8V7.2",
  scissors:
    "M5 2.5L10 10.6M11 2.5L6 10.6M3.2 12.2a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0M9.2 12.2a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0",
  help: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2C8.3 8.6 8 9 8 10M8 12.6v.1",
  save: "M8 2.5v7M5 7l3 3 3-3M2.5 10.5v3h11v-3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  first: "M4 3.5v9M12 3.5L7.5 8l4.5 4.5",
  back: "M10 3.5L5.5 8l4.5 4.5",
  forward: "M6 3.5L10.5 8L6 12.5",
  last: "M12 3.5v9M4 3.5L8.5 8L4 12.5",
  play: "M5 3.5v9l7-4.5Z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
} as const;
