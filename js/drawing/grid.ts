export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function overlap(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

const CELL = 64;
/** More columns than any scene has; cells are numbered row by row. */
const COLUMNS = 1 << 24;

/** Boxes hashed by place, to ask quickly whether something is in the way. */
export class Grid {
  private readonly cells = new Map<number, number[]>();
  /** Left, top, right, bottom and owner of each box, flat. */
  private readonly boxes: number[] = [];

  /** Adds a box; `owner` is ignored when the same owner asks. */
  add(left: number, top: number, right: number, bottom: number, owner: number): void {
    const at = this.boxes.length;
    this.boxes.push(left, top, right, bottom, owner);
    for (let j = Math.floor(top / CELL); j <= Math.floor(bottom / CELL); j++) {
      for (let i = Math.floor(left / CELL); i <= Math.floor(right / CELL); i++) {
        const key = j * COLUMNS + i;
        const cell = this.cells.get(key);
        if (cell) cell.push(at);
        else this.cells.set(key, [at]);
      }
    }
  }

  /** Whether anything not of this owner touches the box; a line without width counts where it crosses. */
  hits(left: number, top: number, right: number, bottom: number, owner: number): boolean {
    const { boxes } = this;
    for (let j = Math.floor(top / CELL); j <= Math.floor(bottom / CELL); j++) {
      for (let i = Math.floor(left / CELL); i <= Math.floor(right / CELL); i++) {
        for (const at of this.cells.get(j * COLUMNS + i) ?? NONE) {
          if (boxes[at + 4] === owner) continue;
          if (boxes[at] > right || boxes[at + 2] < left) continue;
          if (boxes[at + 1] <= bottom && boxes[at + 3] >= top) return true;
        }
      }
    }
    return false;
  }
}

const NONE: number[] = [];
