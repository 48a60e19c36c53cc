import { CheckedModels } from "./CheckedModels";
import { Judges } from "./Judges";
import { Keys } from "./Keys";
import { Providers } from "./Providers";
import { SigningSecrets } from "./SigningSecrets";
import "../../components/form.css";
import "../../components/models.css";
import "./settings.css";

/** Who may call the platform, whom it calls, how it signs, and what it trains. */
export function SettingsPage() {
  return (
    <>
      <title>Settings · Agent RFT</title>
      <h1>Settings</h1>
      <Keys />
      <Providers />
      <Judges />
      <CheckedModels />
      <SigningSecrets />
    </>
  );
}
