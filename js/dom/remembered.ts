/** The inputs of something, to find out whether it has to be made again. */
export class Remembered {
  private parts: readonly unknown[] | null = null;

  /** Whether any of the parts is another one than the last time; they are remembered for the next. */
  isNew(...parts: readonly unknown[]): boolean {
    const { parts: known } = this;
    this.parts = parts;
    return known === null || parts.some((part, i) => part !== known[i]);
  }

  forget(): void {
    this.parts = null;
  }
}
