"""Older encodings with the languages written in them, from which text without a mark is told.

The letters of a language stand in the order of how often they are used.
"""

from __future__ import annotations

_CENTRAL = (
    "óąęłżśćńź",  # Polish
    "íáéěčřžšýůúňóťď",  # Czech
    "áíéčšúžýťľôňäďóĺŕ",  # Slovak
    "áéöíóőüúű",  # Hungarian
    "ăîşâţ",  # Romanian
    "čšžćđ",  # Croatian, Slovene
    "ëç",  # Albanian
)
_WESTERN = (
    "éàèêçôâîùûëïœæüÿñ",  # French
    "äüößé",  # German
    "óíáéñúü",  # Spanish
    "ãçáéíóêõúàâôü",  # Portuguese
    "èàùòìéóîí",  # Italian
    "äåöé",  # Swedish
    "åøæéöü",  # Danish, Norwegian
    "ëéïèöüáóê",  # Dutch
    "àéèíóçòúïü",  # Catalan
    "äõöüšž",  # Estonian
    "éäöüçàèíñøåæôêß",  # names in English
    "éèàáíóúüöäñçåøæêëôîâûïãõðþýœßìùòÿšž",  # several of them
)
_ICELANDIC = ("ðáíéþöóæúý",)
_TURKISH = ("ıüşğöçİâîû",)
_BALTIC = ("ėšžąįųūčę", "āīēšūņļžčģķļōŗ", "äõöüšž")
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_UKRAINIAN = "оанівиретскулдмпяьзйбчгїхюцжєшщфґё"
_BULGARIAN = "аиоетнрсвлкдпмзяъбугчйцшжхщфюь"
_SERBIAN = "аиоенрсјтуквдмплзгбчшцжћхњљђфџ"
_CYRILLIC = (_RUSSIAN, _UKRAINIAN, _BULGARIAN, _SERBIAN)
_GREEK = ("αοτιεσνηυρκπμλςίόάέδήθγώχύφωβξζψϊϋΐΰ",)
_HEBREW = ("יוהלאמרשבתכנעדקפגטחסצזםןךףץ",)
_ARABIC = ("اليمنوترهبدسعكقفحجةىطصشخزءثضأذئغإآظؤ",)
_THAI = ("านรกเงอยลมวดทตปคสะหิขี่้ัไพุชแใบโจผึนำู็ซถฉฟธศณญฐภษฤฎฏฒฌฑฆฝฬฮ์ๆฯ",)

SINGLE_BYTE: tuple[tuple[str, float, bool, tuple[str, ...]], ...] = (
    ("cp1252", 0, True, _WESTERN), ("cp1252", -2.5, True, _ICELANDIC),
    ("cp1250", -1.5, True, _CENTRAL), ("iso8859_2", -2, True, _CENTRAL),
    ("cp1254", -2, True, _TURKISH), ("cp1257", -3, True, _BALTIC),
    ("cp1251", -3, False, _CYRILLIC), ("koi8_r", -4, False, (_RUSSIAN,)),
    ("koi8_u", -4, False, (_UKRAINIAN,)), ("iso8859_5", -4, False, _CYRILLIC),
    ("cp866", -4, False, (_RUSSIAN,)), ("mac_cyrillic", -4, False, _CYRILLIC),
    ("cp1253", -3, False, _GREEK), ("iso8859_7", -4, False, _GREEK),
    ("cp1255", -3, False, _HEBREW), ("cp1256", -3, False, _ARABIC),
    ("iso8859_6", -4, False, _ARABIC), ("cp874", -3, False, _THAI),
    ("mac_roman", -9, True, _WESTERN), ("cp850", -9, True, _WESTERN),
    ("cp852", -9, True, _CENTRAL),
)  # fmt: skip
"""(encoding, how likely it is before a byte was seen, whether its letters stand among ASCII ones,
alphabets)."""

MULTI_BYTE: tuple[tuple[str, float, range], ...] = (
    ("cp932", -4, range(0x88, 0x99)), ("euc_jp", -4, range(0xB0, 0xD0)),
    ("gb18030", -4, range(0xB0, 0xD8)), ("big5", -4, range(0xA4, 0xC7)),
    ("cp949", -6, range(0xB0, 0xC9)),
)  # fmt: skip
"""(encoding, how likely, first bytes of its common characters)."""
