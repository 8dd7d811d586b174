/** The inputs of something, to find out whether it has to be made again. */
export class Remembered {
  private parts: readonly unknown[] | null = null;

  isNew(...parts: readonly unknown[]): boolean {
    const { parts: known } = this;
    this.parts = parts;
    return known === null || parts.some((part, i) => part !== known[i]);
  }

  forget(): void {
    this.parts = null;
  }
}
