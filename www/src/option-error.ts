/**
 * An option is unknown, of another type, or out of its range.
 *
 * ```js
 * await runBertPretrain(strategy, { steps: 0 }).finished.catch((error) => {
 *   if (error instanceof OptionError) console.log(error.field, error.message); // steps steps: invalid value: …
 * });
 * ```
 */
export class OptionError extends TypeError {
  override readonly name = "OptionError";
  /** Which option; a dot leads to one inside another, as in `config.hiddenSize`. */
  readonly field: string;

  constructor(message: string, field: string) {
    super(message);
    this.field = field;
  }
}
