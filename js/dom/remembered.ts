/** The inputs of a result, to know when it is out of date. */
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
