/** Numbers and words in the order in which they are to be read again. */
export interface Packed {
  numbers: Float64Array;
  /** Every word once; the numbers say which. */
  words: string[];
}

/**
 * Writes what it is given, or reads it again; either way each call returns the value. So one function that leads a thing
 * through a coder both packs and unpacks it.
 */
export interface Coder {
  number(value: number): number;
  word<W extends string>(word: W): W;
  /** Numbers at one go; to be read as a part of the buffer itself. */
  numbers(values: ArrayLike<number>): Float64Array;
  many<T>(items: readonly T[], each: (item: T) => T): T[];
}

export class Writer implements Coder {
  private buffer = new Float64Array(1 << 16);
  private length = 0;
  private readonly placeOf = new Map<string, number>();

  number(value: number): number {
    if (this.length === this.buffer.length) this.grow(1);
    this.buffer[this.length++] = value;
    return value;
  }

  word<W extends string>(word: W): W {
    const place = this.placeOf.get(word) ?? this.placeOf.size;
    this.placeOf.set(word, place);
    this.number(place);
    return word;
  }

  numbers(values: ArrayLike<number>): Float64Array {
    this.number(values.length);
    if (this.length + values.length > this.buffer.length) this.grow(values.length);
    this.buffer.set(values, this.length);
    this.length += values.length;
    return values as Float64Array;
  }

  many<T>(items: readonly T[], each: (item: T) => T): T[] {
    this.number(items.length);
    for (const item of items) each(item);
    return items as T[];
  }

  end(): Packed {
    return { numbers: this.buffer.subarray(0, this.length), words: [...this.placeOf.keys()] };
  }

  private grow(by: number): void {
    const larger = new Float64Array(2 * (this.length + by));
    larger.set(this.buffer);
    this.buffer = larger;
  }
}

export class Reader implements Coder {
  private at = 0;

  constructor(private readonly packed: Packed) {}

  number(): number {
    return this.packed.numbers[this.at++];
  }

  word<W extends string>(): W {
    return this.packed.words[this.number()] as W;
  }

  numbers(): Float64Array {
    const length = this.number();
    this.at += length;
    return this.packed.numbers.subarray(this.at - length, this.at);
  }

  many<T>(_: unknown, each: (item: T) => T): T[] {
    const items = new Array<T>(this.number());
    for (let i = 0; i < items.length; i++) items[i] = each(NOTHING as T);
    return items;
  }
}

/** Stands in for a thing that is only about to be read. */
export const NOTHING: unknown = Object.freeze({});
