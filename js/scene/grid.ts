export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** A box by its centre. */
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The box of a place. */
export function boxIn({ x, y, width, height }: Place): Box {
  return { left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 };
}

export function overlap(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

const CELL = 64;

/** A spatial hash of boxes, to find obstacles. */
export class Grid {
  /** Left, top, right, bottom and owner of each box, flat. */
  private readonly boxes: number[] = [];
  /** Per slot, its last entry; shared slots cost time, but give correct results. */
  private heads = new Int32Array(64).fill(-1);
  /** Per entry, its cell's hash, its box, and the slot's previous entry; -1 for none. */
  private hashes = new Int32Array(64);
  private places = new Int32Array(64);
  private before = new Int32Array(64);
  private count = 0;

  /** Add a box. Queries of the same `owner` ignore it. */
  add(left: number, top: number, right: number, bottom: number, owner: number): void {
    const at = this.boxes.length;
    this.boxes.push(left, top, right, bottom, owner);
    for (let j = Math.floor(top / CELL); j <= Math.floor(bottom / CELL); j++) {
      for (let i = Math.floor(left / CELL); i <= Math.floor(right / CELL); i++) {
        if (this.count === this.heads.length) this.grow();
        const hash = hashOf(i, j);
        const entry = this.count++;
        this.hashes[entry] = hash;
        this.places[entry] = at;
        this.link(entry, hash);
      }
    }
  }

  /** Whether the box touches one of another owner; a line without width counts if it crosses. */
  hits(left: number, top: number, right: number, bottom: number, owner: number): boolean {
    const { boxes, heads, places, before } = this;
    for (let j = Math.floor(top / CELL); j <= Math.floor(bottom / CELL); j++) {
      for (let i = Math.floor(left / CELL); i <= Math.floor(right / CELL); i++) {
        const slot = hashOf(i, j) & (heads.length - 1);
        for (let entry = heads[slot]; entry >= 0; entry = before[entry]) {
          const at = places[entry];
          if (boxes[at + 4] === owner) continue;
          if (boxes[at] > right || boxes[at + 2] < left) continue;
          if (boxes[at + 1] <= bottom && boxes[at + 3] >= top) return true;
        }
      }
    }
    return false;
  }

  private link(entry: number, hash: number): void {
    const slot = hash & (this.heads.length - 1);
    this.before[entry] = this.heads[slot];
    this.heads[slot] = entry;
  }

  private grow(): void {
    const size = 2 * this.heads.length;
    this.hashes = longer(this.hashes, size);
    this.places = longer(this.places, size);
    this.before = new Int32Array(size);
    this.heads = new Int32Array(size).fill(-1);
    for (let entry = 0; entry < this.count; entry++) this.link(entry, this.hashes[entry]);
  }
}

function hashOf(i: number, j: number): number {
  const hash = Math.imul(i, 0x9e3779b1) ^ Math.imul(j, 0x85ebca77);
  return hash ^ (hash >>> 15);
}

function longer(array: Int32Array, size: number): Int32Array<ArrayBuffer> {
  const copy = new Int32Array(size);
  copy.set(array);
  return copy;
}
